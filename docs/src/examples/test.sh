#!/bin/sh
# The test of total.sh.
got=$(sh total.sh 5 7)
if [ "$got" != 12 ]; then
  echo "FAIL: the total of 5 and 7 is $got, expected 12"
  exit 1
fi
echo "ok"
