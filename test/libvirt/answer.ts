import type { Domain } from '../../api/domain/domain.ts'
import { validateDomain } from '../../api/domain/validate.ts'
import { writeDomain } from '../../api/domain/xml.ts'
import { complete, withIdentity } from './disagreement.ts'
import type { Oracle } from './oracle.ts'

/** libvirt's result for a domain, in the form in which cases record it. */
export async function answerOf(
  domain: Domain,
  oracle: Oracle,
): Promise<{ readonly stored?: string; readonly refused?: string }> {
  const isReadable = validateDomain(domain).length === 0
  const sent = isReadable ? withIdentity(domain, complete(domain, oracle.capabilities)) : domain
  const answer = await oracle.define(writeDomain(sent))
  // The session's own directory differs in each run.
  return answer.outcome === 'taken' ? { stored: answer.xml } : { refused: answer.message.trim() }
}
