"""Mail to text: bytes to a `Message`, header fields and the tokens they give."""
