; The demo guest: a machine that lives in one sector of a disk. It greets on the first serial line, echoes what is typed, powers off on
; "halt" and when somebody presses the power button, starts anew on "boot", and sleeps in between: it costs no processor, as a boot
; loader's prompt would.
; Assembled by nasm; the BIOS loads it to 0x7c00 and jumps there in real mode.
bits 16
org 0x7c00

serial          equ 0x3f8       ; data; +1 interrupt enable, +2 buffer control, +3 line control, +5 line status
power_status    equ 0x600       ; ACPI's PM1a event block where QEMU's BIOS puts it, for pc and q35
power_enable    equ 0x602
power_control   equ 0x604
power_button    equ 1           ; in the upper byte of status and enable
soft_off        equ 0x2000      ; SLP_EN; QEMU's SLP_TYP of S5 is 0
absent          equ 0xff        ; what an empty port reads

start:
        cld
        xor ax, ax
        mov ds, ax
        mov ss, ax
        mov sp, 0x7c00
        mov dx, serial + 3      ; 115200 baud, 8 bits, no parity
        mov al, 0x80
        out dx, al
        mov dx, serial
        mov al, 1
        out dx, al
        inc dx
        xor al, al
        out dx, al
        mov dx, serial + 3
        mov al, 3
        out dx, al
        mov dx, serial + 2      ; what is typed while we print waits in the line's own buffer
        mov al, 7
        out dx, al
        in al, 0xa1             ; the power button is polled: its interrupt (9) stays masked
        or al, 2
        out 0xa1, al
        mov dx, power_enable
        mov ax, power_button << 8
        out dx, ax
        mov si, greeting
        call print
        sti
prompt:
        mov si, prompt_text
        call print
        xor ebx, ebx            ; the last four characters
idle:
        hlt                     ; until the next tick of the clock, 18 times a second
        mov dx, power_status
        in ax, dx
        cmp ax, absent << 8 | absent
        je read
        test ah, power_button
        jnz pressed
read:
        mov dx, serial + 5
        in al, dx
        cmp al, absent
        je idle
        test al, 1
        jz idle
        mov dx, serial
        in al, dx
        cmp al, 13
        je line
        shl ebx, 8
        mov bl, al
        call put
        jmp read
line:
        cmp ebx, 'tlah'         ; "halt", the first character uppermost
        je halt
        cmp ebx, 'toob'
        je boot
        mov si, help
        call print
        jmp prompt
pressed:
        mov si, button_text
        call print
halt:
        mov si, bye
        call print
        mov dx, power_control
        mov ax, soft_off
        out dx, ax
        mov cx, 18              ; the machine may take a moment
.wait:
        hlt
        loop .wait
        mov si, no_switch       ; still here after a second: a machine without ACPI
        call print
        jmp prompt

boot:
        mov al, 0xfe            ; the keyboard's controller resets the machine
        out 0x64, al
        hlt
        jmp boot

print:                          ; the text at si, up to a zero
        lodsb
        test al, al
        jz .done
        call put
        jmp print
.done:
        ret

put:                            ; the character in al
        push ax
        mov dx, serial + 5
.wait:
        in al, dx
        test al, 0x20
        jz .wait
        pop ax
        mov dx, serial
        out dx, al
        ret

greeting        db 13, 10, 'virtset demo guest is up', 13, 10, 0
prompt_text     db 13, 10, 'guest> ', 0
help            db 13, 10, 'the commands are: halt, boot', 0
button_text     db 13, 10, 'power button', 0
bye             db 13, 10, 'powering off', 13, 10, 0
no_switch       db 'this machine has no power switch (no ACPI)', 0

times 510 - ($ - $$) db 0
dw 0xaa55
