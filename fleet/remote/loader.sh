# Read by the host's login shell, whichever that is (sh, csh, fish, ...), inside single quotes and as one line:
# so no backslash before a quote, nothing that any of them treats specially there. The commands follow on stdin,
# where no login shell touches them and no process list shows them. A line with the mark ends a command: after
# `ask` the next may follow; else it is the last, and what comes behind the mark is its own stdin, since
# `read` takes no byte beyond its line. Before and after each command both outputs get a line with the mark: what
# login scripts print is not the command's, and their end may be long in coming, since a process that a login
# script left in the background may hold them open. The subshell turns
# a signal into 128+n. Only the shell's own means, and no process before the command's: a QNX host may have no
# printf, and a newline is the third of the characters at which a shell splits words when it starts.
fleet_n=${IFS#??};fleet_s=;
while IFS= read -r fleet_l;do
case "$fleet_l" in
"$0")(echo "$fleet_n$0 :";echo "$fleet_n$0 :" >&2;eval "$fleet_s");;
"ask $0")(echo "$fleet_n$0 :";echo "$fleet_n$0 :" >&2;eval "$fleet_s") </dev/null;;
*)fleet_s="$fleet_s$fleet_l$fleet_n";continue;;
esac;
fleet_c=$?;fleet_s=;echo "$fleet_n$0 $fleet_c";echo "$fleet_n$0" >&2;
case "$fleet_l" in "$0")exit $fleet_c;;esac;
done;exit 126
