import { attribute, child, children, element } from '../description.ts'
import { oneOf, uint32, uuid } from '../scalar.ts'
import { identifier, line } from '../text.ts'

const secret = element('A libvirt secret that contains a passphrase.', {
  type: attribute(oneOf('passphrase'), 'The kind of secret.'),
  uuid: attribute(uuid, 'The secret by its UUID.', { reach: 'pod' }),
  usage: attribute(line(), 'The secret by its usage.', { reach: 'pod' }),
})

const cipher = element('The cipher of a new image.', {
  name: attribute(identifier, 'The cipher, e.g. `aes`.'),
  size: attribute(uint32, 'Size of the key in bits.'),
  mode: attribute(identifier, 'The mode, e.g. `xts`.'),
  hash: attribute(identifier, 'The hash, e.g. `sha256`.'),
})

const ivgen = element('How initialization vectors are generated in a new image.', {
  name: attribute(identifier, 'The generator: `plain`, `plain64`, `essiv`.'),
  hash: attribute(identifier, 'Its hash, with `essiv`.'),
})

export const encryption = element('How the image is encrypted.', {
  format: attribute(oneOf('default', 'qcow', 'luks', 'luks2', 'luks-any'), 'The format of the encryption.'),
  engine: attribute(oneOf('qemu', 'librbd'), 'Who decrypts: QEMU, or the RBD library.'),
  secrets: children('secret', secret, 'The passphrases, one per layer.', { single: 'secret' }),
  cipher: child(cipher, 'The cipher of a new image.'),
  ivgen: child(ivgen, 'How initialization vectors are generated in a new image.'),
})
