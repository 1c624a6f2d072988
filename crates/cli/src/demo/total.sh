#!/bin/sh
# Adds up the numbers in a file, one number per line.
# usage: sh total.sh FILE

sum=0
while read -r number; do
    sum=$((sum + number))
done < "$1"
echo "$sum"
