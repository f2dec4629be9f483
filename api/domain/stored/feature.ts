import { type Normalization, omit, withoutOff } from './member.ts'

/** What libvirt stores for features. */
export const feature: Normalization = {
  'features.hyperv.spinlocks': (spinlocks) => omit(spinlocks, spinlocks['state'] === false ? ['retries'] : []),
  'features.hyperv.stimer': (stimer) => withoutOff(stimer, ['direct']),
  'features.hyperv.tlbflush': (flush) => withoutOff(flush, ['direct', 'extended']),
  'features.hyperv.vendorId': (vendor) => omit(vendor, vendor['state'] === false ? ['value'] : []),
  'features.kvm.dirtyRing': (ring) => omit(ring, ring['state'] === false ? ['size'] : []),
  'features.smm': (smm) => omit(smm, smm['state'] === false ? ['tseg'] : []),
}
