; The demo guest, which fits into one sector of a disk. It prints a greeting on the first serial port and echoes input.
; "halt" and the power button power it off, "boot" restarts it. It sleeps while it waits for input, so it uses no CPU
; time; the prompt of a boot loader would.
; nasm assembles it; the BIOS loads it to 0x7c00 and starts it in real mode.
bits 16
org 0x7c00

serial          equ 0x3f8       ; data; +1 interrupt enable, +2 buffer control, +3 line control, +5 line status
power_status    equ 0x600       ; ACPI's PM1a event block, at the address that QEMU's BIOS sets for pc and q35
power_enable    equ 0x602
power_control   equ 0x604
power_button    equ 1           ; in the upper byte of status and enable
soft_off        equ 0x2000      ; SLP_EN; QEMU's SLP_TYP of S5 is 0
absent          equ 0xff        ; the value of a port without a device

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
        mov dx, serial + 2      ; the FIFO stores input that arrives while the guest prints
        mov al, 7
        out dx, al
        in al, 0xa1             ; the power button is polled: its interrupt (9) remains masked
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
        xor ebx, ebx            ; the last four characters of the input
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
        cmp ebx, 'tlah'         ; "halt": the first character is in the highest byte
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
        mov cx, 18              ; powering off may take a moment
.wait:
        hlt
        loop .wait
        mov si, no_switch       ; still running after a second: the machine has no ACPI
        call print
        jmp prompt

boot:
        mov al, 0xfe            ; the keyboard controller resets the machine
        out 0x64, al
        hlt
        jmp boot

print:                          ; prints the text at si, which ends with a zero byte
        lodsb
        test al, al
        jz .done
        call put
        jmp print
.done:
        ret

put:                            ; prints the character in al
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
