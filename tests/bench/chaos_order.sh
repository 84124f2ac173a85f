# The program under test, in a terminal: an order by name and number of apples. BROKEN/NUMBER names its fault, if it has one.
number=$1 fault=$(cat "$2/$1" 2>/dev/null) price=25
rm -f total.txt
printf 'Order %s\nName: ' "$number"
read -r name
printf 'Apples: '
read -r count
[ "$fault" = total ] && price=26
paid=$((count * price)) shown=$((count * price))
[ "$fault" = file ] && paid=0
[ "$fault" = shown ] && shown=0
[ "$fault" = effect ] || echo "$number: $name pays $paid" >total.txt
echo "$name pays $shown"
read -r _
