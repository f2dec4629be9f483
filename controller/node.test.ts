import { describe, expect, it } from 'vitest'
import { slimNode, stateOf } from './node.ts'

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
    [node('True'), 'ready'],
    [node('False'), 'unready'],
    [node('Unknown'), 'silent'],
    [{ metadata: {} }, 'unready'],
    [undefined, 'gone'],
  ])('%#: %s', (given, state) => {
    expect(stateOf(given)).toBe(state)
  })

  it('is stored without unused fields', () => {
    const slim = slimNode(node('Unknown'))
    expect(slim).toEqual({
      metadata: { name: 'n1', uid: 'u', resourceVersion: '1' },
      status: { conditions: [{ type: 'Ready', status: 'Unknown' }] },
    })
    expect(stateOf(slim)).toBe('silent')
  })
})
