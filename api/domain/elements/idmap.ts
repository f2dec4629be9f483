import { attribute, children, element } from '../description.ts'
import { uint32 } from '../scalar.ts'

const host = { reach: 'host' } as const

const range = element('A range of IDs.', {
  start: attribute(uint32, 'The first ID inside.', host),
  target: attribute(uint32, 'The ID outside that it is mapped to.', host),
  count: attribute(uint32, 'The number of IDs.', host),
})

export const idmap = element('How user and group IDs inside are mapped to IDs outside.', {
  uids: children('uid', range, 'User IDs.', { ...host, key: [['start']] }),
  gids: children('gid', range, 'Group IDs.', { ...host, key: [['start']] }),
})
