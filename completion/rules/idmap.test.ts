import { testRule, testSilent } from '../../test/rule-table.ts'

const range = (start: number) => ({ start, target: 1000 + start, count: 1 })

testRule('idmap', [
  {
    refused: { idmap: { uids: [range(0)] } },
    causes: ['spec.domain.idmap.gids: Required value: must be set: users and groups must be mapped together'],
    accepted: { idmap: { uids: [range(0)], gids: [range(0)] } },
  },
  {
    refused: { idmap: { uids: [], gids: [range(0)] } },
    causes: ['spec.domain.idmap.uids: Required value: must be set: users and groups must be mapped together'],
    accepted: { idmap: { uids: [], gids: [] } },
  },
  {
    refused: { idmap: { uids: [range(2), range(1)], gids: [range(0)] } },
    causes: ['spec.domain.idmap.uids: Invalid value: 1: must start with 0, the id of root'],
    accepted: { idmap: { uids: [range(2), range(0)], gids: [range(0)] } },
  },
])

testSilent('idmap', [{}, { idmap: { uids: [{ target: 1 }], gids: [range(0)] } }])
