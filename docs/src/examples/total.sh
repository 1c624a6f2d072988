#!/bin/sh
# Prints the sum of its arguments.
sum=0
shift
for price in "$@"; do
  sum=$((sum + price))
done
echo "$sum"
