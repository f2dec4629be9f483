import { invalid } from './finding.ts'
import { example, type Rule } from './rule.ts'

export const resourcePartition: Rule = {
  id: 'resource-partition',
  description: 'The resource partition must be an absolute path below the root.',
  about: ['partition'],
  *check({ domain: { resource } }) {
    const partition = resource?.partition
    if (partition === undefined || /^\/./.test(partition)) return
    yield invalid('spec.domain.resource.partition', partition, 'must be an absolute path below /', 'e.g. /machine')
  },
  example: example({ resource: { partition: 'machine' } }, { resource: { partition: '/machine' } }),
}
