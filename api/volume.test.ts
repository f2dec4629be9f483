import { describe, expect, test } from 'vitest'
import type { Volume } from './volume.ts'
import { checkVolumes } from './volume.ts'

describe('a volume', () => {
  const problems = (volume: Volume) => checkVolumes([volume], 'v').map(({ rule, field }) => `${rule} ${field}`)
  const data = { persistentVolumeClaim: { claimName: 'data.disk-1' } }

  test.each<[string, Volume, string[]]>([
    ['an empty disk', { name: 'scratch', emptyDisk: { capacity: '1Gi' } }, []],
    ['a claim', { name: 'data', ...data }, []],
    ['a cloud-init image', { name: 'seed', cloudInit: {} }, []],
    ['of no kind', { name: 'x' }, ['volume-kind v[0]']],
    ['of two kinds', { name: 'x', cloudInit: {}, ...data }, ['volume-kind v[0].cloudInit']],
    ['with a name that no pod volume can have', { name: 'A b', cloudInit: {} }, ['volume-name v[0].name']],
    [
      'of an invalid claim name',
      { name: 'x', persistentVolumeClaim: { claimName: '../x' } },
      ['claim-name v[0].persistentVolumeClaim.claimName'],
    ],
    ['of no size', { name: 'x', emptyDisk: { capacity: '0' } }, ['volume-capacity v[0].emptyDisk.capacity']],
    ['of a size in words', { name: 'x', emptyDisk: { capacity: 'much' } }, ['volume-capacity v[0].emptyDisk.capacity']],
  ])('%s', (_, volume, expected) => expect(problems(volume)).toEqual(expected))
})
