"""`python -m slipstream` is the command `slipstream`."""

from slipstream.sim.search_path import leave_out_current_folder

leave_out_current_folder()

from slipstream.cli import main  # noqa: E402

if __name__ == "__main__":
    raise SystemExit(main())
