/**
 * The directory in which libvirt's system daemon stores the variables of UEFI firmware. A stored VM has paths in it, as
 * libvirt would set them; the launcher converts them to paths of its pod.
 */
export const nvramDirectory = '/var/lib/libvirt/qemu/nvram'
