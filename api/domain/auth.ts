import { attribute, child, element } from './description.ts'
import { oneOf, text, uuid } from './scalar.ts'

const secret = element('The secret of libvirt that holds the password.', {
  type: attribute(oneOf('ceph', 'iscsi'), 'What the secret is for.', { reach: 'pod' }),
  usage: attribute(text(), 'The secret by what it is used for.', { reach: 'pod' }),
  uuid: attribute(uuid, 'The secret by its UUID.', { reach: 'pod' }),
})

export const auth = element('How QEMU says who it is to the storage server.', {
  username: attribute(text(), 'The user name there.', { reach: 'pod' }),
  secret: child(secret, 'Where the password is.'),
})
