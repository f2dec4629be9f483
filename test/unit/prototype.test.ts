import { afterEach, beforeEach, expect, test } from 'vitest'
import { isRecord } from '../../api/schema.ts'
import { parseVirtualMachine } from '../../api/virtual-machine.ts'
import { bundledCapabilities as capabilities } from '../../completion/capabilities.ts'
import { complete } from '../../completion/complete.ts'
import { rules } from '../../completion/rules/rules.ts'
import { warnings } from '../../completion/rules/warnings.ts'
import { createCandidates } from '../../presets/candidates.ts'
import { minimal } from '../rule-table.ts'

/**
 * A text of a user that is looked up in an object literal also finds the members that every object has, such as
 * `constructor`. Here every object has this member, too, and reading it is recorded.
 */
const name = 'inherited'
const reads: string[] = []

beforeEach(() => {
  Object.defineProperty(Object.prototype, name, {
    configurable: true,
    get() {
      const [, , caller = ''] = String(new Error(name).stack).split('\n')
      if (!caller.includes('node_modules')) reads.push(caller.trim())
      return undefined
    },
    set(value: unknown) {
      Object.defineProperty(this, name, { value, configurable: true, enumerable: true, writable: true })
    },
  })
})
afterEach(() => {
  Reflect.deleteProperty(Object.prototype, name)
  reads.length = 0
})

type Path = readonly (string | number)[]

function textsIn(value: unknown, path: Path = []): readonly Path[] {
  if (typeof value === 'string') return [path]
  if (Array.isArray(value)) return value.flatMap((item, index) => textsIn(item, [...path, index]))
  return isRecord(value) ? Object.entries(value).flatMap(([key, item]) => textsIn(item, [...path, key])) : []
}

function withName(value: unknown, [step, ...rest]: Path): unknown {
  if (step === undefined) return name
  if (Array.isArray(value)) return value.map((item, index) => (index === step ? withName(item, rest) : item))
  return isRecord(value) ? { ...value, [step]: withName(value[step], rest) } : value
}

/** What was looked up while each VM with the name in the place of one text was completed, if that is valid. */
function lookedUp(spec: object): readonly string[] {
  return textsIn(spec).flatMap((path) => {
    const parsed = parseVirtualMachine({
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'VirtualMachine',
      metadata: { name: 'vm', namespace: 'team' },
      spec: withName(spec, path),
    })
    if ('causes' in parsed) return []
    complete(parsed.vm, {
      presets: createCandidates(),
      namespace: { name: 'team', labels: {} },
      capabilities,
      entropy: { uid: 'request' },
      allowHostReach: true,
    })
    return reads.splice(0).map((caller) => `${path.join('.')} ${caller}`)
  })
}

test.each([...rules, ...warnings].map(({ id, example }) => [id, example] as const))(
  '%s: no text of its example is looked up among the members of every object',
  (_, { breaks, holds }) => {
    const specs = [breaks, holds].map((spec) => ({ ...spec, domain: { ...minimal, ...spec.domain } }))
    expect(specs.flatMap(lookedUp)).toEqual([])
  },
)
