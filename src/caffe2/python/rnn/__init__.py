"""What tests of recurrent layers share."""
