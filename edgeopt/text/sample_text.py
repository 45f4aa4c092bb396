"""A small text to measure a language model on if the user gives none; written for edgeopt."""

SAMPLE_TEXT = """\
The lighthouse keeper climbed the stairs every evening, although nobody had asked him to do so for years. The
lamp had been electric since his father's time, and a small computer in the cellar switched it on at dusk.
Still, he liked to look at the sea from the gallery and to count the ships on the horizon. Tonight there were
three: a ferry with many lights, a fishing boat that rolled in the swell, and something dark and long that he
could not name.

A computer on the edge of a network has little memory and no large battery. It may sit in a lamp post, in a
tractor or in a toy. Because it is close to the place where data is made, it can answer quickly, and it does not
need to send pictures or voices to a distant server. The price is that the program has to be small and fast.
Engineers therefore store the weights of a model in fewer bits, leave out what is computed twice, and measure
again after every change.

"Did you close the window?" asked Maria.
"Which one?" said her brother, without looking up from his book.
"The one in the kitchen, of course. It is going to rain, and the bread is on the table."
He sighed, put a finger between the pages and listened. The first drops were already falling on the roof. Then
they
both ran down the corridor, laughing, and arrived too late: the tablecloth was wet, and the cat sat in the
middle of
it with an expression of deep disappointment.

To bake a simple loaf, mix 500 grams of flour with 350 grams of warm water, 10 grams of salt and 5 grams of dry
yeast. Stir until no dry flour is left, cover the bowl and wait for an hour. Fold the dough four times from each
side, shape it, and let it rest for another forty minutes. Heat the oven to 230 degrees Celsius. Bake the loaf
for thirty-five minutes, until the crust is dark brown and the bottom sounds hollow when you knock on it.

def mean(values):
    total = 0.0
    for value in values:
        total += value
    return total / len(values)

The function above returns the arithmetic mean of a list of numbers. It fails with a division by zero if the
list is empty, so a careful programmer checks the length first. For many numbers of very different size, the
order of the sum matters too, because each addition rounds its result to the nearest number that the machine can
represent.

Water boils at a lower temperature on a mountain than at the coast. The reason is the pressure of the air: the
higher one climbs, the less air is above, and the more easily molecules of water escape from the surface. At
three thousand metres, water boils at about ninety degrees, and potatoes take noticeably longer to cook. A
closed pot keeps the steam inside and raises the pressure, which is why people in high villages have used heavy
lids for centuries.

The river had changed its course twice in living memory. On old maps it passed north of the church; after the
flood it ran through the mill, and the miller moved to the city and opened a shop for umbrellas. The children of
the village still found smooth stones in the fields, far away from any water, and the teacher used them to
explain how patient a river is. In the third year of the drought the bed was dry, and one could walk from one
bank to the other without getting wet shoes.

Dear Mr. Okafor, thank you for your letter of 14 March. We are sorry that the parcel arrived damaged. A new one
was sent yesterday and should reach you by Friday. Please keep the broken lamp until our driver calls; he will
take it with him, and you do not have to pay anything. If you have any other questions, call us between nine and
five on any working day. Yours sincerely, Anna Lindqvist, customer service.

What is the difference between speed and velocity? Speed says how fast something moves, for example eighty
kilometres an hour. Velocity also says in which direction. A car that drives in a circle at a constant speed
changes its velocity all the time, because its direction changes. This needs a force towards the middle of the
circle, and the tyres have to provide it. On ice they cannot, and the car continues in a straight line, as
Newton's first law says it must.

Why do leaves change their colour in autumn? During summer they are full of chlorophyll, which is green and
catches the light of the sun. When the days get shorter, the tree takes back what is valuable and stores it in
branches and roots. The green fades, and yellow colours that were there all the time become visible. Red is
different: some trees make it only in autumn, from sugar that is left in the leaf, and biologists still argue
about the reason.

The old chess player opened with a pawn, as he always did. His opponent, a girl of eleven, answered at once and
wrote down the move in a blue notebook. After twenty moves the board was almost empty. He had a rook and two
pawns, she had a bishop, a knight and one pawn, and neither could see a way to win. They agreed on a draw, shook
hands, and spent the next hour looking for the mistake that both of them were sure the other had made.

A good test fails for one reason only. If it fails, its name says what is broken, and its message shows the two
values that differ. It does not depend on the clock, on the network or on the order in which other tests run.
Some people write the test before the program, others afterwards; more important is that somebody has seen it
fail at least once, because a test that cannot fail protects nothing.

In the market of the harbour town you could buy nearly everything: oranges and nails, second-hand radios, live
crabs in baskets, maps of countries that no longer existed, and a kind of sweet made of sesame and honey. The
sellers called out their prices in four languages. Near the fountain sat a man who repaired watches. He had a
lens in one eye and never spoke while he worked, but when he was done he held the watch to his ear, nodded, and
smiled like a child.

There are 7 days in a week, 24 hours in a day and 60 minutes in an hour. So a week has 7 times 24 times 60
minutes, which is 10,080. A sensor that reports once a minute sends 10,080 messages in a week. If each message
has 120 bytes, that is 1,209,600 bytes, or about 1.2 megabytes. Over a slow radio link of 300 bytes per second,
all of them together would take a little more than an hour.

Once upon a time there was a small robot that swept the floor of a library at night. It knew every shelf and
every carpet, and it was afraid of the stairs. One night it found a book that had fallen down, and because it
could not lift the book, it pushed it carefully in front of the right shelf. In the morning the librarian
wondered who had been so kind. From then on she left a lamp burning for the robot, although it did not need any
light at all.
"""
