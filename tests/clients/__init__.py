"""Published Python clients, unmodified, each in a process of its own (driver.py), same scenarios.

packages.txt lists them. What one of them writes all others read; they work side by side on one
topic while workers die. tests/conformance looks closely at one client, this folder at all of them.
"""
