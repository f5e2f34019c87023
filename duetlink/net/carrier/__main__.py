"""`python -m duetlink.net.carrier`: started by a kernel, which talks to it on standard input and output."""

from duetlink.net.carrier.helper.process import main

if __name__ == "__main__":
    main()
