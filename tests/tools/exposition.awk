# SPDX-License-Identifier: Apache-2.0
# Whether a text is in Prometheus's text format 0.0.4, read strictly: each metric has its HELP and its
# TYPE, in this order and once, before its samples, which stand together; a counter's name ends in
# _total; labels and their escapes are well formed, and no series comes twice; values are numbers;
# buckets of a histogram are cumulative, by a growing le, the last is +Inf, and is the _count.
function complain(why)
{
    printf "exposition: line %d: %s: %s\n", NR, why, $0
    bad = 1
}

# Takes the labels off `rest`; `le` is set to that label's value.
function take_labels(    name)
{
    le = ""
    if (rest !~ /^{/)
        return 1
    rest = substr(rest, 2)
    while (rest !~ /^}/) {
        if (!match(rest, /^[a-zA-Z_][a-zA-Z0-9_]*="/))
            return 0
        name = substr(rest, 1, RLENGTH - 2)
        rest = substr(rest, RLENGTH + 1)
        if (!match(rest, /^([^"\\]|\\\\|\\"|\\n)*"/))
            return 0
        if (name == "le")
            le = substr(rest, 1, RLENGTH - 1)
        rest = substr(rest, RLENGTH + 1)
        if (rest ~ /^,/)
            rest = substr(rest, 2)
        else if (rest !~ /^}/)
            return 0
    }
    rest = substr(rest, 2)
    return 1
}

function end_histogram()
{
    if (type == "histogram" && (last_le != "+Inf" || !has_sum || !has_count || counted != last_bucket))
        complain("the histogram " metric " is not whole")
}

/^# HELP / {
    end_histogram()
    if ($3 in helped || $3 !~ /^[a-zA-Z_:][a-zA-Z0-9_:]*$/)
        complain("HELP of no new metric")
    metric = $3
    helped[metric] = 1
    type = ""
    last_le = last_bucket = ""
    has_sum = has_count = 0
    next
}
/^# TYPE / {
    if ($3 != metric || type != "" || $4 !~ /^(counter|gauge|histogram)$/ || NF != 4)
        complain("TYPE not behind its HELP, or none that is known")
    type = $4
    if (type == "counter" && metric !~ /_total$/)
        complain("a counter without _total")
    next
}
/^#/ || /^$/ { complain("neither HELP, TYPE nor a sample"); next }
{
    if (!match($0, /^[a-zA-Z_:][a-zA-Z0-9_:]*/)) {
        complain("no name")
        next
    }
    name = substr($0, 1, RLENGTH)
    rest = substr($0, RLENGTH + 1)
    if (!take_labels()) {
        complain("labels")
        next
    }
    series = substr($0, 1, length($0) - length(rest))
    if (series in seen)
        complain("a series twice")
    seen[series] = 1
    if (rest !~ /^ -?[0-9]+(\.[0-9]+)?$/) {
        complain("no number")
        next
    }
    value = substr(rest, 2)
    samples++
    if (type != "histogram") {
        if (type == "" || name != metric)
            complain("a sample of no metric that was declared")
        next
    }
    if (name == metric "_bucket") {
        if (le !~ /^(\+Inf|[0-9]+(\.[0-9]+)?)$/ || last_le == "+Inf" ||
            (last_le != "" && (value + 0 < last_bucket + 0 || (le != "+Inf" && le + 0 <= last_le + 0))))
            complain("buckets do not grow")
        last_le = le
        last_bucket = value
    } else if (name == metric "_sum") {
        has_sum = 1
    } else if (name == metric "_count") {
        has_count = 1
        counted = value
    } else {
        complain("a sample of no metric that was declared")
    }
}
END {
    end_histogram()
    exit bad || !samples
}
