"""The commands of `mirrormesh`, one a module."""
