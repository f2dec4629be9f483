/**
 * The form of Kubernetes' resource quantities: a decimal number and a suffix (`64Mi`, `1.5G`, `100m`, `2e3`). The
 * grammar is that of k8s.io/apimachinery/pkg/api/resource/quantity.go. It is also the pattern in the schemas.
 */
export const quantityForm = /^([+-]?)(\d+(?:\.\d*)?|\.\d+)(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?\d{1,3})?$/

/** Kubernetes' own values have 19 digits. Bounds the work for a longer text. */
const longest = 256

const nano = 1_000_000_000n
const binary: ReadonlyMap<string, bigint> = new Map(
  ['Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'].map((suffix, power) => [suffix, 1024n ** BigInt(power + 1)]),
)
const decimalExponents: ReadonlyMap<string, number> = new Map([
  ['n', -9],
  ['u', -6],
  ['m', -3],
  ['k', 3],
  ['M', 6],
  ['G', 9],
  ['T', 12],
  ['P', 15],
  ['E', 18],
])

/** The quantity in billionths, rounded up as in Kubernetes; undefined if `text` is not a quantity. */
export function quantityNano(text: string): bigint | undefined {
  const [, sign = '', number = '', suffix = ''] = text.length > longest ? [] : (quantityForm.exec(text) ?? [])
  if (number === '') return undefined
  const [whole = '', fraction = ''] = number.split('.')
  const digits = BigInt(`${whole}${fraction}`)
  const exponent = decimalExponents.get(suffix) ?? (/^[eE][+-]?\d/.test(suffix) ? Number(suffix.slice(1)) : 0)
  const scaled = digits * nano * (binary.get(suffix) ?? 1n)
  const magnitude = shift(scaled, exponent - fraction.length)
  return sign === '-' ? -magnitude : magnitude
}

/** The quantity in whole units (bytes, for storage and memory), rounded up; undefined if `text` is not a quantity. */
export function quantityValue(text: string): bigint | undefined {
  const value = quantityNano(text)
  if (value === undefined) return undefined
  return value > 0n ? (value + nano - 1n) / nano : value / nano
}

/** `value` × 10^`exponent`, rounded away from zero. */
function shift(value: bigint, exponent: number): bigint {
  if (exponent >= 0) return value * 10n ** BigInt(exponent)
  const divisor = 10n ** BigInt(-exponent)
  return (value + divisor - 1n) / divisor
}
