import type { Meter } from './condition-budget.ts'

/** The cost of a call, and the maximum length of its result. */
export interface Cost extends Readonly<Meter> {
  /** Characters of a string, bytes of bytes, members of a list; 0 for anything else. */
  readonly length: number
}

/** The lengths of the receiver and the arguments, in this order: characters, bytes or members; 0 for anything else. */
type Lengths = readonly number[]

export interface CallCost {
  readonly cost: (lengths: Lengths) => Cost
  /** The maximum length of an argument, set if the library's implementation is slower than linear. */
  readonly longest?: number
}

/** Steps for looking up and calling a function in the library. */
const call = 4
/** Characters that V8 processes per step in a linear pass. */
const charactersPerStep = 32

const constant = (steps: number, bytes = 0): CallCost => ({ cost: () => ({ steps, bytes, length: 0 }) })

/** One pass over all arguments, with a result of at most `growth` times their length. */
const linear = (perStep: number, growth = 0, bytesPerCharacter = 2): CallCost => ({
  cost: (lengths) => {
    const total = sum(lengths)
    const length = total * growth
    return { steps: call + Math.ceil(total / perStep), bytes: length * bytesPerCharacter, length }
  },
})

/** Searches one text for another. V8's fast search has a fallback that takes the product of the lengths. */
const search: CallCost = {
  cost: ([text = 0, found = 0]) => ({
    steps: call + Math.ceil((text * Math.max(found, 1)) / charactersPerStep),
    bytes: 0,
    length: 0,
  }),
}

/** The maximum length of a number as text; `double` has the most digits. The functions refuse longer numbers. */
const digits = 400

const parseNumber = linear(charactersPerStep)
const scalar = constant(call)
const text: CallCost = { cost: () => ({ steps: 3 * call, bytes: 2 * digits, length: digits }) }

/** `Intl` creates a formatter for each call. No time zone name is longer than 64 characters. */
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
 * The cost of each function, keyed by name and arity; the key of a method begins with a dot. A function without an
 * entry cannot be used: one that an update of the library adds must be measured first.
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
  // `ΐ` becomes three characters in upper case.
  ['.lowerAscii/0', linear(8, 3)],
  ['.upperAscii/0', linear(8, 3)],
  ['.trim/0', linear(charactersPerStep, 1)],
  ['.substring/1', linear(charactersPerStep, 1)],
  ['.substring/2', linear(charactersPerStep, 1)],
  // One object for each `{}` in the text.
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
  // The library's pattern for durations backtracks in cubic time.
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
