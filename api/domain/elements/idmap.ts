import { attribute, children, element } from '../description.ts'
import { uint32 } from '../scalar.ts'

const host = { reach: 'host' } as const

const range = element('A range of ids.', {
  start: attribute(uint32, 'The first id inside.', host),
  target: attribute(uint32, 'The id outside that it becomes.', host),
  count: attribute(uint32, 'How many.', host),
})

export const idmap = element('How user and group ids inside become those outside.', {
  uids: children('uid', range, 'User ids.', { ...host, key: [['start']] }),
  gids: children('gid', range, 'Group ids.', { ...host, key: [['start']] }),
})
