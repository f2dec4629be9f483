import { attribute, element, leaf } from '../description.ts'
import { base64, oneOf, uint32, yesNo } from '../scalar.ts'

export const launchSecurity = element(
  "Memory encryption, which protects the guest's memory from the node.",
  {
    type: attribute(oneOf('sev', 'sev-snp', 's390-pv'), 'The technique.'),
    kernelHashes: attribute(yesNo, 'Whether hashes of kernel, initrd and command line are measured.'),
    authorKey: attribute(yesNo, 'Whether `idAuth` contains an author key.'),
    vcek: attribute(yesNo, "Whether reports may be signed with the chip's own key."),
    cbitpos: leaf(uint32, 'Which bit of an address marks encrypted memory.'),
    reducedPhysBits: leaf(uint32, 'The number of physical address bits that are lost.'),
    policy: leaf(
      { kind: 'integer', min: 0, max: 0xffff_ffff_ffff_ffffn, hexFor: { sev: 4, 'sev-snp': 8 } },
      'The policy that the firmware enforces, as bits.',
    ),
    handle: leaf(uint32, 'The handle of the guest while it runs.'),
    dhCert: leaf(base64, "The owner's Diffie-Hellman key, in base 64."),
    session: leaf(base64, "The owner's session, in base 64."),
    guestVisibleWorkarounds: leaf(base64, 'Workarounds that the guest sees, in base 64.'),
    idBlock: leaf(base64, 'Expected measurement of the guest, in base 64.'),
    idAuth: leaf(base64, 'Signature of the expected measurement, in base 64.'),
    hostData: leaf(base64, 'Host data that reports contain, in base 64.'),
  },
  {
    union: {
      by: 'type',
      owns: [
        'kernelHashes',
        'authorKey',
        'vcek',
        'cbitpos',
        'reducedPhysBits',
        'policy',
        'handle',
        'dhCert',
        'session',
        'guestVisibleWorkarounds',
        'idBlock',
        'idAuth',
        'hostData',
      ],
      branches: {
        sev: ['kernelHashes', 'cbitpos', 'reducedPhysBits', 'policy', 'handle', 'dhCert', 'session'],
        'sev-snp': [
          'kernelHashes',
          'authorKey',
          'vcek',
          'cbitpos',
          'reducedPhysBits',
          'policy',
          'guestVisibleWorkarounds',
          'idBlock',
          'idAuth',
          'hostData',
        ],
        's390-pv': [],
      },
    },
  },
)
