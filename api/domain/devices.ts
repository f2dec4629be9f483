import { element } from './description.ts'

/** Each list of devices has its own file. */
export const devices = element('Everything that the guest finds on its buses.', {})
