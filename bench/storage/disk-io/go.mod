module virtset.io/bench/disk-io

go 1.26
