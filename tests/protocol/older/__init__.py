"""The codecs of SDK 0.1 to 0.8."""
