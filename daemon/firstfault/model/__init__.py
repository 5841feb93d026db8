"""The frozen values that pass between the stages. Nothing here reads, writes or asks the clock."""
