import { attribute, element } from '../description.ts'
import { uint32, yesNo } from '../scalar.ts'

export const reconnect = element('Whether to reconnect after the connection is lost.', {
  enabled: attribute(yesNo, 'Whether it is tried again.'),
  timeout: attribute(uint32, 'Seconds between two attempts.'),
  delay: attribute(uint32, 'Seconds for which requests wait for the connection before they fail.'),
})
