import { Environment } from '@marcbachmann/cel-js'
import { quantityNano } from '../api/quantity.ts'

class Quantity {
  readonly nano: bigint
  constructor(nano: bigint) {
    this.nano = nano
  }
}

function quantityOf(text: string): Quantity {
  const nano = quantityNano(text)
  if (nano === undefined) throw new Error(`not a quantity: ${text}`)
  return new Quantity(nano)
}

const compare = (left: Quantity, right: Quantity): bigint =>
  left.nano < right.nano ? -1n : left.nano > right.nano ? 1n : 0n

const billion = 1_000_000_000n

function wholeUnits({ nano }: Quantity): bigint {
  if (nano % billion !== 0n) throw new Error('the quantity is not a whole number')
  return nano / billion
}

/** CEL's own functions, and Kubernetes' for quantities (k8s.io/apiserver/pkg/cel/library/quantity.go). */
export const createConditionEnvironment = () =>
  new Environment({
    enableOptionalTypes: true,
    homogeneousAggregateLiterals: false,
    limits: { maxAstNodes: 1000, maxDepth: 50 },
  })
    .registerVariable('object', 'dyn')
    .registerVariable('request', 'dyn')
    .registerVariable('namespaceObject', 'dyn')
    .registerType('Quantity', Quantity)
    .registerFunction('quantity(string): Quantity', quantityOf)
    .registerFunction('isQuantity(string): bool', (text: string) => quantityNano(text) !== undefined)
    .registerFunction(
      'Quantity.isGreaterThan(Quantity): bool',
      (one: Quantity, other: Quantity) => one.nano > other.nano,
    )
    .registerFunction('Quantity.isLessThan(Quantity): bool', (one: Quantity, other: Quantity) => one.nano < other.nano)
    .registerFunction('Quantity.compareTo(Quantity): int', compare)
    .registerFunction('Quantity.sign(): int', ({ nano }: Quantity) => (nano > 0n ? 1n : nano < 0n ? -1n : 0n))
    .registerFunction('Quantity.isInteger(): bool', ({ nano }: Quantity) => nano % billion === 0n)
    .registerFunction('Quantity.asInteger(): int', wholeUnits)
    .registerFunction('Quantity.asApproximateFloat(): double', ({ nano }: Quantity) => Number(nano) / 1e9)
    .registerFunction(
      'Quantity.add(Quantity): Quantity',
      (one: Quantity, other: Quantity) => new Quantity(one.nano + other.nano),
    )
    .registerFunction(
      'Quantity.sub(Quantity): Quantity',
      (one: Quantity, other: Quantity) => new Quantity(one.nano - other.nano),
    )
