#!/bin/sh
# What only the leader does: it appends to a register. zonelect-sidecar runs it while this
# replica leads, and ends it by SIGTERM.
set -eu
register=${REGISTER:?say which file it appends to}

# append compares tokens as any receiver of writes should: in one step with the write.
append() {
	(
		flock 9
		last=$(tail -n 1 "$register" | cut -d ' ' -f 1)
		if [ "${last:-0}" -gt "$ZONELECT_TOKEN" ]; then
			echo "refused token $ZONELECT_TOKEN: $last was here"
			exit 1
		fi
		echo "$ZONELECT_TOKEN $1 $$ $ZONELECT_IDENTITY" >&9
	) 9>>"$register"
}

trap 'append stopped; exit 0' TERM
echo "leading with token $ZONELECT_TOKEN"
append began
while :; do
	sleep "${INTERVAL:-1}"
	append works
done
