import { expect, test } from 'vitest'
import { hugePagesConf } from './qemu-conf.ts'

test.each<[readonly string[], string]>([
  [[], ''],
  [['/a/1Gi', '/a/2Mi'], 'hugetlbfs_mount = ["/a/1Gi", "/a/2Mi"]\n'],
])('file systems of huge pages %j are configured', (mounts, expected) => {
  expect(hugePagesConf(mounts)).toBe(expected)
})
