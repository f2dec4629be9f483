import type { User } from '../admission/request.ts'

/**
 * Who a request counts for until it is authorized for the namespace in its URL, and who a session counts for. A tenant
 * can create any number of service accounts in its namespace, so they count as one.
 */
export const tenantOf = ({ username }: User): string =>
  /^system:serviceaccount:[^:]+(?=:)/.exec(username)?.[0] ?? username
