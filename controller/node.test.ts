import { describe, expect, it } from 'vitest'
import { onlyReadiness, stateOf } from './node.ts'

const node = (status: 'True' | 'False' | 'Unknown') => ({
  metadata: { name: 'n1', uid: 'u', resourceVersion: '1', labels: { zone: 'a' } },
  status: {
    conditions: [
      { type: 'MemoryPressure', status: 'True' as const },
      { type: 'Ready', status, reason: 'r' },
    ],
  },
})

describe('a node', () => {
  it.each([
    [node('True'), 'answers'],
    [node('False'), 'answers'],
    [node('Unknown'), 'silent'],
    [{ metadata: {} }, 'answers'],
    [undefined, 'gone'],
  ])('%#: %s', (given, state) => {
    expect(stateOf(given)).toBe(state)
  })

  it('is kept only as far as it is read', () => {
    const kept = onlyReadiness(node('Unknown'))
    expect(kept).toEqual({
      metadata: { name: 'n1', uid: 'u', resourceVersion: '1' },
      status: { conditions: [{ type: 'Ready', status: 'Unknown' }] },
    })
    expect(stateOf(kept)).toBe('silent')
  })
})
