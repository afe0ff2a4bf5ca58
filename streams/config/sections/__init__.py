"""The sections of the file as pydantic models."""
