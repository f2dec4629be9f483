/**
 * libvirt's qemu.conf for a daemon that serves one VM in a pod, as uid 107, without capabilities.
 * Each line is necessary: libvirt 9.0 or 11.3 failed without it.
 */
export const qemuConf = `# QEMU writes its log itself: there is no virtlogd.
stdio_handler = "file"
# A mount namespace per QEMU needs CAP_SYS_ADMIN; the pod is one already.
namespaces = []
security_driver = "none"
# The pod's cgroup belongs to the kubelet.
cgroup_controllers = []
# Volumes need not have extended attributes.
remember_owner = 0
`

/** For the file systems of huge pages at these paths, which an unprivileged libvirtd does not find by itself. */
export const hugePagesConf = (mounts: readonly string[]): string =>
  mounts.length === 0 ? '' : `hugetlbfs_mount = [${mounts.map((path) => JSON.stringify(path)).join(', ')}]\n`
