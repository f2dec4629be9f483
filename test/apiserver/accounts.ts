import type { Access } from '../../runtime/access.ts'

/** One of virtset's service accounts. Only these can write status. */
export const accountOf = (component: 'controller' | 'handler' | 'webhooks'): string =>
  `system:serviceaccount:virtset-system:virtset-${component}`

/** An account of Kubernetes: only these can report what happened to a launcher pod. */
export const kubernetesAccount = 'system:kube-controller-manager'

/** Flags of kubectl that let an administrator act as a user, with all permissions. */
export const kubectlAs = (user: string): string[] => [`--as=${user}`, '--as-group=system:masters']

/**
 * The access of an administrator who acts as a user, with all permissions. `nodeName`: the token of the user is bound
 * to a pod on this node.
 */
export function accessAs(user: string, access: Access, nodeName?: string): Access {
  const impersonation = {
    'impersonate-user': user,
    'impersonate-group': 'system:masters',
    ...(nodeName === undefined ? {} : { 'impersonate-extra-authentication.kubernetes.io%2fnode-name': nodeName }),
  }
  return {
    ...access,
    async prove() {
      const proof = await access.prove()
      return { ...proof, headers: { ...proof.headers, ...impersonation } }
    },
  }
}
