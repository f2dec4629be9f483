import { useRef } from 'preact/hooks'
import { Action } from './action.ts'
import { objectPath, request, type Metadata } from './api.ts'
import { failureOf, type Failure } from './failure.ts'
import { html } from './html.ts'
import { missingPermission, useAllowed, type Access } from './permission.ts'

interface DeleteProps {
  readonly metadata: Metadata
  /** Shows why it was refused, or removes it. */
  readonly report: (failure: Failure | undefined) => void
  readonly owner: { readonly kind: string; readonly name: string } | undefined
}

/** Deletes a VM after the user has confirmed it. */
export function Delete({ metadata, owner, report }: DeleteProps) {
  const { namespace = '', name, uid, deletionTimestamp } = metadata
  const dialog = useRef<HTMLDialogElement>(null)
  const access: Access = { verb: 'delete', group: 'virtset.io', resource: 'virtualmachines', namespace, name }
  const isAllowed = useAllowed(access)
  const remove = async () => {
    dialog.current?.close()
    // Not another VM of this name, which was created meanwhile.
    const body = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { uid } }
    await request('DELETE', objectPath('virtualmachines', namespace, name), { body }).then(
      () => report(undefined),
      (error: unknown) => report(failureOf(error)),
    )
  }
  const isLeaving = deletionTimestamp !== undefined
  return html`
    <${Action}
      class="danger"
      label=${`Delete ${name} …`}
      reason=${isAllowed === false ? missingPermission(access) : isLeaving ? 'it is being deleted' : undefined}
      run=${() => dialog.current?.showModal()}
    >
      Delete …
    </${Action}>
    <dialog ref=${dialog} aria-labelledby="delete-title" aria-describedby="delete-text">
      <h2 id="delete-title">Delete ${name}?</h2>
      <p id="delete-text">
        The guest is shut down, then the VM is removed from namespace ${namespace}. ${consequence(owner)}
      </p>
      <div class="buttons">
        <button autofocus onClick=${() => dialog.current?.close()}>Cancel</button>
        <button class="danger" id="delete-now" onClick=${() => void remove()}>Delete</button>
      </div>
    </dialog>
  `
}

function consequence(owner: DeleteProps['owner']): string {
  if (owner?.kind === 'VirtualMachineConfig') return `Its config ${owner.name} remains, and can start it again.`
  if (owner?.kind === 'VirtualMachineGroup') return `The group ${owner.name} replaces it with a new VM.`
  return 'Its volumes remain.'
}
