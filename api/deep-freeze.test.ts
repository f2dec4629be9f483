import { describe, expect, it } from 'vitest'
import { deepFreeze } from './deep-freeze.ts'

describe('deep freeze', () => {
  it('freezes every level', () => {
    const value = deepFreeze({ a: [{ b: {} }], c: null })
    expect(Object.isFrozen(value.a[0]?.b)).toBe(true)
  })

  it.each([
    ['deep', `${'['.repeat(10_000)}${']'.repeat(10_000)}`],
    ['long', `[${'{},'.repeat(400_000)}{}]`],
  ])('freezes the most %s value that the API server accepts', (_, json) => {
    expect(Object.isFrozen(deepFreeze(JSON.parse(json)))).toBe(true)
  })
})
