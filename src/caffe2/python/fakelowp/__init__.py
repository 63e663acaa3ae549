"""What compared an accelerator's numbers of 16 bits with exact ones; the accelerator's operators were in no wheel."""
