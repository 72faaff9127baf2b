"""Mail parsing: from bytes to a `Message`, header fields and header tokens.

The C kernel reads most messages; the Python readers (`readers`, `mime`, `html`) read the rest, and every message in an
installation without a compiler.
"""
