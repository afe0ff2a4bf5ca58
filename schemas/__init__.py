"""What travels: codecs of records and results, and the documents we define ourselves."""

from schemas.codecs import Codec, codec

__all__ = ["Codec", "codec"]
