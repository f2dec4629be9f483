import { templateWithClaims } from '../../api/claim-template.ts'
import { parseConfig } from '../../api/config.ts'
import type { KindHandler } from './kind.ts'
import { templateHandler } from './template.ts'

export const config: KindHandler = templateHandler(({ object }) => {
  const parsed = parseConfig(object)
  return 'causes' in parsed ? parsed : { template: templateWithClaims(parsed.config), causes: [] }
})
