import type { Meter } from './condition-budget.ts'

/** What a call takes, and how long its result can be. */
export interface Cost extends Readonly<Meter> {
  /** Characters of a string, bytes of bytes, members of a list; 0 of anything else. */
  readonly length: number
}

/** Characters, bytes or members of the receiver and the arguments, in this order; 0 of anything else. */
type Lengths = readonly number[]

export interface CallCost {
  readonly cost: (lengths: Lengths) => Cost
  /** The longest text that the function takes: its library's code is slower than linear. */
  readonly longest?: number
}

/** What the library takes to find and to call a function. */
const call = 4
/** Characters that a linear pass of V8 looks at in one step. */
const charactersPerStep = 32

const constant = (steps: number, bytes = 0): CallCost => ({ cost: () => ({ steps, bytes, length: 0 }) })

/** A pass over all that is given, with a result of at most `growth` times its length. */
const linear = (perStep: number, growth = 0, bytesPerCharacter = 2): CallCost => ({
  cost: (lengths) => {
    const total = sum(lengths)
    const length = total * growth
    return { steps: call + Math.ceil(total / perStep), bytes: length * bytesPerCharacter, length }
  },
})

/**
 * Looks for one text in another. V8 gives up its fast search where the texts are unlucky, and then takes the product.
 */
const search: CallCost = {
  cost: ([text = 0, found = 0]) => ({
    steps: call + Math.ceil((text * Math.max(found, 1)) / charactersPerStep),
    bytes: 0,
    length: 0,
  }),
}

/** Numbers as text: `double` has the most digits; what is longer is refused by the functions themselves. */
const digits = 400

const parseNumber = linear(charactersPerStep)
const scalar = constant(call)
const text: CallCost = { cost: () => ({ steps: 3 * call, bytes: 2 * digits, length: digits }) }

/** `Intl` makes a formatter for each call. No name of a time zone is longer than 64 characters. */
const inTimeZone: CallCost = { ...constant(12_000, 64 * 1024), longest: 64 }

const timestampParts = [
  'getDate',
  'getDayOfMonth',
  'getDayOfWeek',
  'getDayOfYear',
  'getFullYear',
  'getHours',
  'getMilliseconds',
  'getMinutes',
  'getMonth',
  'getSeconds',
]

/**
 * What each function takes, by its name and the number of its arguments; a method's begins with a dot. One that is
 * missing here cannot be used: a function that an update of the library brings has to be measured first.
 */
export const callCosts: ReadonlyMap<string, CallCost> = new Map<string, CallCost>([
  ['dyn/1', scalar],
  ['type/1', scalar],
  ['bool/1', linear(charactersPerStep)],
  ['size/1', linear(4)],
  ['.size/0', linear(4)],
  ['bytes/1', linear(8, 3, 1)],
  ['double/1', parseNumber],
  ['int/1', parseNumber],
  ['uint/1', parseNumber],
  ['string/1', { cost: (lengths) => longer(text.cost(lengths), linear(8, 1).cost(lengths)) }],
  ['.startsWith/1', linear(charactersPerStep)],
  ['.endsWith/1', linear(charactersPerStep)],
  ['.contains/1', search],
  ['.indexOf/1', search],
  ['.indexOf/2', search],
  ['.lastIndexOf/1', search],
  ['.lastIndexOf/2', search],
  // `ΐ` has three capitals.
  ['.lowerAscii/0', linear(8, 3)],
  ['.upperAscii/0', linear(8, 3)],
  ['.trim/0', linear(charactersPerStep, 1)],
  ['.substring/1', linear(charactersPerStep, 1)],
  ['.substring/2', linear(charactersPerStep, 1)],
  // An object for each `{}` of the text.
  ['.json/0', linear(1, 1, 40)],
  ['.hex/0', linear(4, 2)],
  ['.string/0', linear(8, 1)],
  ['.base64/0', linear(8, 2)],
  ['.at/1', scalar],
  ['timestamp/1', constant(20)],
  ...timestampParts.flatMap((name): [string, CallCost][] => [
    [`.${name}/0`, scalar],
    [`.${name}/1`, inTimeZone],
  ]),
  // The library's pattern for durations backtracks from each place to each place.
  [
    'duration/1',
    { cost: ([length = 0]) => ({ steps: 20 + Math.ceil(length ** 3 / 32), bytes: 64, length: 0 }), longest: 64 },
  ],
  // Up to 256 characters, and an exponent of three digits.
  ['quantity/1', constant(160, 512)],
  ['isQuantity/1', constant(160, 512)],
  ...[
    'isGreaterThan/1',
    'isLessThan/1',
    'compareTo/1',
    'sign/0',
    'isInteger/0',
    'asInteger/0',
    'asApproximateFloat/0',
  ].map((name): [string, CallCost] => [`.${name}`, constant(2 * call)]),
  ['.add/1', constant(2 * call, 512)],
  ['.sub/1', constant(2 * call, 512)],
  ['.none/0', scalar],
  ['.of/1', scalar],
  ['.hasValue/0', scalar],
  ['.value/0', scalar],
])

const longer = (one: Cost, other: Cost): Cost => (one.steps > other.steps ? one : other)
const sum = (lengths: Lengths): number => lengths.reduce((total, length) => total + length, 0)
