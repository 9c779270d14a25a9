"""Which version of the client this is."""

from importlib.metadata import version

__version__ = version("tidemill")
