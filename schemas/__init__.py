"""What travels: codecs of records and results, and the documents we define ourselves."""

from schemas.codecs import Avro, Codec, codec

__all__ = ["Avro", "Codec", "codec"]
