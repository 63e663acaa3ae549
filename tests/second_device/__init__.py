"""A second device, whose memory the host cannot read."""
