import { attribute, child, element } from '../description.ts'
import { oneOf, uuid } from '../scalar.ts'
import { genericName, line } from '../text.ts'

const secret = element('The libvirt secret that contains the password.', {
  type: attribute(oneOf('ceph', 'iscsi'), 'What the secret is for.', { reach: 'pod' }),
  usage: attribute(line(), 'The secret by its usage.', { reach: 'pod' }),
  uuid: attribute(uuid, 'The secret by its UUID.', { reach: 'pod' }),
})

export const auth = element('How QEMU authenticates to the storage server.', {
  username: attribute(genericName, 'The user name there.', { reach: 'pod' }),
  secret: child(secret, 'The secret that contains the password.'),
})
